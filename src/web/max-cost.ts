interface MaxCost {
  /** Undefined where the field is empty, or has a problem. */
  readonly value?: number;
  readonly problem?: string;
}

/** The amount in a field, which may begin with a dollar sign. Pure. */
export function maxCostOf(text: string): MaxCost {
  const plain = text.trim().replace(/^\$\s*/, '');
  if (plain === '') return {};
  const value = /^(\d+\.?\d*|\.\d+)$/.test(plain) ? Number(plain) : NaN;
  if (value > 0 && Number.isFinite(value)) return { value };
  return { problem: 'Enter an amount in dollars above 0, such as 2.50, or leave it empty.' };
}
