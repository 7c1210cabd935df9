/** Exact parser and canonical formatter of quantities (apimachinery `resource.Quantity`). */

const pattern = /^([+-]?)(\d+\.?\d*|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?\d+)?$/;

const binary = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];
const decimal: Readonly<Record<string, number>> = {
  n: -9,
  u: -6,
  m: -3,
  '': 0,
  k: 3,
  M: 6,
  G: 9,
  T: 12,
  P: 15,
  E: 18,
};

export interface Quantity {
  /** Value in billionths, the smallest unit of a quantity. */
  readonly nanos: bigint;
  readonly form: 'binary' | 'decimal' | 'exponent';
}

const billion = 1_000_000_000n;

/** Returns undefined if the text is no quantity. Rounds fractions of a billionth away from zero. */
export function parseQuantity(text: string): Quantity | undefined {
  const [, sign = '', digits = '', suffix = ''] = pattern.exec(text) ?? [];
  if (digits === '') return undefined;
  const [whole = '', fraction = ''] = digits.split('.');
  const mantissa = BigInt(`${whole}${fraction}` === '' ? '0' : `${whole}${fraction}`);
  const power = binary.indexOf(suffix);
  const exponent = /^[eE][+-]?\d/.test(suffix) ? Number(suffix.slice(1)) : (decimal[suffix] ?? 0);
  const scale = exponent - fraction.length + 9;
  if (Math.abs(scale) > 60) return undefined;
  const factor = power > 0 ? 1024n ** BigInt(power) : 1n;
  const scaled = mantissa * factor;
  const divisor = 10n ** BigInt(Math.max(0, -scale));
  const size = (scaled * 10n ** BigInt(Math.max(0, scale)) + divisor - 1n) / divisor;
  return {
    nanos: sign === '-' ? -size : size,
    form: power > 0 ? 'binary' : /^[eE][+-]?\d/.test(suffix) ? 'exponent' : 'decimal',
  };
}

/** Formats a quantity with the largest suffix that leaves a whole number. */
export function formatQuantity({ nanos, form }: Quantity): string {
  if (nanos === 0n) return '0';
  if (form === 'binary' && nanos % billion === 0n) {
    let value = nanos / billion;
    let power = 0;
    while (power < binary.length - 1 && value % 1024n === 0n) {
      value /= 1024n;
      power += 1;
    }
    return `${value}${binary[power] ?? ''}`;
  }
  let value = nanos;
  let exponent = -9;
  while (exponent < 18 && value % 1000n === 0n) {
    value /= 1000n;
    exponent += 3;
  }
  if (form === 'exponent') return exponent === 0 ? String(value) : `${value}e${exponent}`;
  const suffix = Object.entries(decimal).find(([, power]) => power === exponent)?.[0] ?? '';
  return `${value}${suffix}`;
}

/** Returns the canonical form of a quantity; any other text remains unchanged. */
export function canonicalQuantity(value: string | number): string {
  const quantity = parseQuantity(String(value));
  return quantity === undefined ? String(value) : formatQuantity(quantity);
}

export const quantityFault =
  "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
