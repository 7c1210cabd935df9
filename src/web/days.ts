/** Milliseconds of a day. */
export const dayMs = 86_400_000;

/** Days whose mean is the pace of a forecast. */
export const paceDays = 7;

/** A day in UTC as YYYY-MM-DD, as usage is counted. */
export const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
/** The beginning of a day in UTC; NaN for a text that is no day. */
export const startOfDay = (day: string): number => Date.parse(`${day}T00:00:00Z`);
export const addDays = (day: string, days: number): string => dayOf(startOfDay(day) + days * dayMs);
