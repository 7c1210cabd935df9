/**
 * The items that `PART=K/N` chooses: each Nth one from the Kth on. The parts from 1/N to N/N have
 * all items. Without `PART`, all items are chosen.
 */
export function partOf<Item>(
  items: readonly Item[],
  text = process.env['PART'] ?? '',
): readonly Item[] {
  if (text === '') return items;
  const [, part, parts] = (/^(\d+)\/(\d+)$/.exec(text) ?? []).map(Number);
  if (part === undefined || parts === undefined || part < 1 || part > parts)
    throw new Error(`PART is one of equal parts, for example 2/3; not ${text}`);
  return items.filter((_, index) => index % parts === part - 1);
}
