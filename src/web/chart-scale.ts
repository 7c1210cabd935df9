/** The least number of 1, 2 or 5 times a power of ten that is at least `value`. */
export function topOf(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return (
    [1, 2, 5].map((step) => step * power).find((step) => step >= value * (1 - 1e-9)) ?? 10 * power
  );
}
