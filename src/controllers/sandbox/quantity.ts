/** Factors of the suffixes of a quantity (apimachinery, pkg/api/resource/suffix.go). */
const factors: Readonly<Record<string, number>> = {
  ...{ n: 1e-9, u: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 },
  ...{ Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 },
};

/**
 * The value of a quantity of Kubernetes, such as 1.5 for `1500m`, with the precision of a double;
 * NaN for a text that is no quantity.
 */
export function quantityOf(text: string): number {
  const [, digits = '', suffix = ''] =
    /^([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([numkMGTPE]?|[KMGTPE]i)$/.exec(text) ?? [];
  return digits === '' ? NaN : Number(digits) * (suffix === '' ? 1 : (factors[suffix] ?? NaN));
}
