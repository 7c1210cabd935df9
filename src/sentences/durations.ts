const units = [
  { name: 'd', seconds: 86_400 },
  { name: 'h', seconds: 3_600 },
  { name: 'min', seconds: 60 },
] as const;

/** A duration in its largest unit: `41 s`, `12 min`, `3 h`, `5 d`. Negative ones count as 0. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const unit = units.find((one) => seconds >= one.seconds);
  return unit === undefined ? `${seconds} s` : `${Math.floor(seconds / unit.seconds)} ${unit.name}`;
}

export const since = (time: string, now: number): string => duration(now - Date.parse(time));

/** The time since `time`; `just now` below a minute, so that lists do not change every second. */
export const ago = (time: string, now: number): string =>
  now - Date.parse(time) < 60_000 ? 'just now' : `${since(time, now)} ago`;
