// The stream from the orchestrator, read by fetch because it needs the token as a header. It comes back by itself.

const QUIET_MS = 20000;

export class WrongToken extends Error {}

export async function ask(path, token, options = {}) {
  const headers = { Authorization: `Bearer ${token}`, ...(options.body ? { "Content-Type": "application/json" } : {}) };
  const answer = await fetch(path, { ...options, headers, cache: "no-store" });
  const document = answer.status === 204 ? {} : await answer.json().catch(() => ({}));
  if (answer.status === 401 || answer.status === 403 && !options.body) throw new WrongToken(document.error ?? "wrong token");
  if (!answer.ok) throw new Error(document.error ?? `the orchestrator answers ${answer.status}`);
  return document;
}

export class Feed {
  constructor({ path, token, frame, state }) {
    Object.assign(this, { path, token, frame, state });
    this.control = null;
    this.round = 0;
  }

  // Follow from now on; what was followed before is let go.
  start() {
    this.stop();
    this.run(++this.round);
  }

  stop() {
    this.round += 1;
    this.control?.abort();
  }

  async run(round) {
    let pause = 300;
    while (round === this.round) {
      try {
        await this.once(round, () => { pause = 300; });
        if (round !== this.round) return;
      } catch (error) {
        if (round !== this.round) return;
        this.state(error instanceof WrongToken ? "token" : "away", error.message);
        if (error instanceof WrongToken) return;
      }
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(pause * 1.7, 5000);
    }
  }

  async once(round, began) {
    const control = this.control = new AbortController();
    let quiet = setTimeout(() => control.abort(), QUIET_MS);
    try {
      const answer = await fetch(this.path(), { headers: { Authorization: `Bearer ${this.token()}` }, signal: control.signal, cache: "no-store" });
      if (answer.status === 401 || answer.status === 403) throw new WrongToken((await answer.json()).error);
      if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error ?? `the orchestrator answers ${answer.status}`);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let left = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done || round !== this.round) return;
        clearTimeout(quiet);
        quiet = setTimeout(() => control.abort(), QUIET_MS);
        const parts = (left + value).split("\n\n");
        left = parts.pop();
        for (const part of parts) if (part.startsWith("data: ")) this.frame(JSON.parse(part.slice(6)));
        if (parts.length) began(), this.state("live");
      }
    } finally {
      clearTimeout(quiet);
      control.abort();
    }
  }
}
