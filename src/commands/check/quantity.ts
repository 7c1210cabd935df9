const powers: Readonly<Record<string, number>> = {
  ...{ n: 1e-9, u: 1e-6, m: 1e-3, '': 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 },
  ...{ Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 },
};

/**
 * The value of a quantity of Kubernetes (`100m`, `1.5Gi`, `2e3`), with the precision of a double;
 * undefined for any other text.
 */
export function quantityOf(text: string): number | undefined {
  const [, digits = '', suffix = ''] =
    /^([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE])?$/.exec(text) ??
    [];
  const power = powers[suffix];
  return digits === '' || power === undefined ? undefined : Number(digits) * power;
}
