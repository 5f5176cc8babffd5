// The browser's storage, for this tab and for all tabs. If the browser blocks site data, values last as long as the page.

function openStorage(kind) {
  try {
    window[kind].getItem("holdfast");
    return window[kind];
  } catch {
    const values = new Map();
    return { getItem: (name) => values.get(name) ?? null, setItem: (name, value) => values.set(name, value), removeItem: (name) => values.delete(name) };
  }
}

export const tabStorage = openStorage("sessionStorage");
export const browserStorage = openStorage("localStorage");
