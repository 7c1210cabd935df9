/** A gauge, without what only its registry uses. */
export interface PlainGauge<L extends string> {
  set(labels: Readonly<Partial<Record<L, string>>>, value: number): void;
  inc(labels: Readonly<Partial<Record<L, string>>>, value?: number): void;
  dec(labels: Readonly<Partial<Record<L, string>>>, value?: number): void;
  labels(labels: Readonly<Partial<Record<L, string>>>): { set(value: number): void };
}
