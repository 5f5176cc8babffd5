// What the browser keeps for the page: for the tab, and for good. Where site data is blocked, as long as the page is open.

function keeping(kind) {
  try {
    window[kind].getItem("holdfast");
    return window[kind];
  } catch {
    const kept = new Map();
    return { getItem: (name) => kept.get(name) ?? null, setItem: (name, value) => kept.set(name, value), removeItem: (name) => kept.delete(name) };
  }
}

export const tab = keeping("sessionStorage");
export const browser = keeping("localStorage");
