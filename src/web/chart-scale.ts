const steps = [1, 2, 3, 4, 5, 6, 8];

/** The least number of these steps times a power of ten that is at least `value`. */
export function topOf(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return steps.map((step) => step * power).find((step) => step >= value * (1 - 1e-9)) ?? 10 * power;
}
