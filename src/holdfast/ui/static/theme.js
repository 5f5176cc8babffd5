// The light and dark themes. The page follows the system until the user chooses. Canvases read the colours from `colours`.

import { browserStorage } from "./browser_storage.js";

const NAMES = ["ink", "soft", "faint", "card", "edge", "sunk", "accent", "exact", "tentative", "predicted", "absent", "none",
  "exact-text", "tentative-text", "predicted-text", "absent-text", "s0", "s1", "s2", "s3", "s4", "s5"];

export const colours = {};
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();

function apply() {
  const choice = browserStorage.getItem("holdfast-theme");
  document.documentElement.dataset.theme = choice ?? (system.matches ? "dark" : "light");
  const style = getComputedStyle(document.documentElement);
  for (const name of NAMES) colours[name] = style.getPropertyValue(`--${name}`).trim();
  for (const listener of listeners) listener();
}

export function toggleTheme() {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  if (next === (system.matches ? "dark" : "light")) browserStorage.removeItem("holdfast-theme");
  else browserStorage.setItem("holdfast-theme", next);
  apply();
}

export const onThemeChange = (listener) => listeners.add(listener);

system.addEventListener("change", apply);
apply();

// Set the size of a canvas to the resolution of the screen, and return a context that counts in CSS pixels.
export function sharpContext(canvas, width, height) {
  const ratio = Math.min(devicePixelRatio || 1, 3);
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

export const FONT = 'system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif';
