const exactTime = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

export const exact = (time: string): string =>
  Number.isNaN(Date.parse(time)) ? '' : exactTime.format(new Date(time));

const timeOfDay = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });

export const clockTime = (ms: number): string => timeOfDay.format(ms);

const readIntervalMs = 5_000;
const maxDelayMs = 60_000;

/** The delay before the next periodic read, which grows with consecutive failures. */
export const delayAfter = (failures: number): number =>
  Math.min(maxDelayMs, readIntervalMs * 2 ** Math.min(failures, 10));

/** Maximum difference of clocks that the rounded Date header and network delays can cause. */
const toleranceMs = 5_000;
let aheadMs = 0;

/** Sets `aheadMs`, the lead of the gateway's clock, from the Date header of a response. */
export function learnTime(date: string | null): void {
  const differenceMs = date === null ? NaN : Date.parse(date) - Date.now();
  if (!Number.isNaN(differenceMs))
    aheadMs = Math.abs(differenceMs) > toleranceMs ? differenceMs : 0;
}

/** The current time by the clock of the gateway, because the browser's clock may be wrong. */
export const serviceTime = (): number => Date.now() + aheadMs;
