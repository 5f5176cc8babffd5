// The page's terms, and how it writes numbers, times and names.

export const QUALITIES = ["exact", "tentative", "predicted", "absent"];
export const QUALITY_MEANINGS = {
  exact: "as if nothing had failed",
  tentative: "computed from incomplete input; corrected later",
  predicted: "predicted, because the output is late",
  absent: "no rows, because the producer is dead",
};
export const DEAD_STATES = new Set(["failed", "lost", "abandoned", "stopped"]);

export function formatSeconds(value) {
  if (value == null) return "–";
  if (value < 0.0995) return `${Math.round(value * 1000)} ms`;
  if (value < 99.5) return `${value.toFixed(value < 9.95 ? 1 : 0)} s`;
  const minutes = value / 60;
  return minutes < 99 ? `${minutes.toFixed(minutes < 10 ? 1 : 0)} min` : `${(minutes / 60).toFixed(1)} h`;
}

export function formatCount(value) {
  if (value == null) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (size >= 1e4) return `${(value / 1e3).toFixed(0)} k`;
  if (size >= 1e3) return `${(value / 1e3).toFixed(1)} k`;
  return size >= 10 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(1);
}

export function formatBytes(value) {
  if (!value) return "–";
  return value >= 1 << 30 ? `${(value / (1 << 30)).toFixed(1)} GiB` : `${Math.round(value / (1 << 20))} MiB`;
}

const CLOCK = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
export const formatClock = (at) => CLOCK.format(at * 1000);

export function formatSpan(value) {
  const whole = Math.max(0, Math.round(value));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

// The task of a replica's key: "3:vwap/0.1" is replica 1 of vwap/0.
export const taskOf = (key) => key.slice(key.indexOf(":") + 1, key.lastIndexOf("."));
