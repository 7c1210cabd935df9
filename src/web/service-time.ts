/** A smaller difference is that of the seconds in the header, and of the way of the answer. */
const toleranceMs = 5_000;
let aheadMs = 0;

/** Learns the time of the service from the header Date of an answer. */
export function learnTime(date: string | null): void {
  const differenceMs = date === null ? NaN : Date.parse(date) - Date.now();
  if (!Number.isNaN(differenceMs))
    aheadMs = Math.abs(differenceMs) > toleranceMs ? differenceMs : 0;
}

/** The present time as records have it. The clock of the browser may be wrong. */
export const serviceTime = (): number => Date.now() + aheadMs;
