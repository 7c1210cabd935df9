const alphabet = 'bcdfghjklmnpqrstvwxz2456789';

/**
 * Returns the suffix for generateName: five characters of an alphabet without vowels, as in
 * Kubernetes.
 */
export const nameSuffix = (random: () => number): string =>
  Array.from({ length: 5 }, () => alphabet[Math.floor(random() * alphabet.length)] ?? 'x').join('');

/**
 * Returns a version 4 UUID from the given random source, so that a simulation with the same seed
 * gets the same UUIDs.
 */
export function randomUuid(random: () => number): string {
  const digits = Array.from({ length: 32 }, () => Math.floor(random() * 16).toString(16));
  digits[12] = '4';
  digits[16] = (8 + Math.floor(random() * 4)).toString(16);
  const hex = digits.join('');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
