// Read the feed from the orchestrator. It uses fetch, because the token must be sent as a header, and reconnects by itself.

const SILENCE_LIMIT_MS = 20000;

export class InvalidToken extends Error {}

// Call the API and return the answer. Throws InvalidToken, or an Error with the orchestrator's message.
export async function callApi(path, token, options = {}) {
  const headers = { Authorization: `Bearer ${token}`, ...(options.body ? { "Content-Type": "application/json" } : {}) };
  const answer = await fetch(path, { ...options, headers, cache: "no-store" });
  const document = answer.status === 204 ? {} : await answer.json().catch(() => ({}));
  if (answer.status === 401 || answer.status === 403 && !options.body) throw new InvalidToken(document.error ?? "invalid token");
  if (!answer.ok) throw new Error(document.error ?? `the orchestrator answers ${answer.status}`);
  return document;
}

export class Feed {
  constructor({ path, token, onFrame, onState }) {
    Object.assign(this, { path, token, onFrame, onState });
    this.abortController = null;
    this.round = 0;
  }

  // Connect, and close an earlier connection.
  start() {
    this.stop();
    this.run(++this.round);
  }

  stop() {
    this.round += 1;
    this.abortController?.abort();
  }

  async run(round) {
    let pauseMs = 300;
    while (round === this.round) {
      try {
        await this.readFrames(round, () => { pauseMs = 300; });
        if (round !== this.round) return;
      } catch (error) {
        if (round !== this.round) return;
        this.onState(error instanceof InvalidToken ? "token" : "disconnected", error.message);
        if (error instanceof InvalidToken) return;
      }
      await new Promise((done) => setTimeout(done, pauseMs));
      pauseMs = Math.min(pauseMs * 1.7, 5000);
    }
  }

  async readFrames(round, onFirstFrame) {
    const controller = this.abortController = new AbortController();
    let silenceTimer = setTimeout(() => controller.abort(), SILENCE_LIMIT_MS);
    try {
      const answer = await fetch(this.path(), { headers: { Authorization: `Bearer ${this.token()}` }, signal: controller.signal, cache: "no-store" });
      if (answer.status === 401 || answer.status === 403) throw new InvalidToken((await answer.json()).error);
      if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error ?? `the orchestrator answers ${answer.status}`);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done || round !== this.round) return;
        clearTimeout(silenceTimer);
        silenceTimer = setTimeout(() => controller.abort(), SILENCE_LIMIT_MS);
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        for (const part of parts) if (part.startsWith("data: ")) this.onFrame(JSON.parse(part.slice(6)));
        if (parts.length) onFirstFrame(), this.onState("live");
      }
    } finally {
      clearTimeout(silenceTimer);
      controller.abort();
    }
  }
}
