/**
 * Returns the shard of a namespace, from 0 to `shards` - 1. All releases and all processes compute
 * the same shard: 32 bits of FNV-1a over the UTF-8 text, mixed, modulo the number of shards.
 */
export function shardOf(namespace: string, shards: number): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(namespace, 'utf8'))
    hash = Math.imul(hash ^ byte, 0x0100_0193) >>> 0;
  return mixed(hash) % shards;
}

/**
 * Returns the hash with all its bits spread over the low ones, by the last step of MurmurHash3. The
 * low bits of FNV-1a alone depend on the low bits of the characters only, so that names of one
 * pattern would share a shard.
 */
function mixed(hash: number): number {
  let bits = hash;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85eb_ca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2_ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
