const alphabet = 'bcdfghjklmnpqrstvwxz2456789';

/** What generateName is continued with: five letters that make no words. */
export const nameSuffix = (random: () => number): string =>
  Array.from({ length: 5 }, () => alphabet[Math.floor(random() * alphabet.length)] ?? 'x').join('');

/** A version 4 UUID from the given randomness, so that a simulation gets the same ones again. */
export function randomUuid(random: () => number): string {
  const digits = Array.from({ length: 32 }, () => Math.floor(random() * 16).toString(16));
  digits[12] = '4';
  digits[16] = (8 + Math.floor(random() * 4)).toString(16);
  const hex = digits.join('');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
