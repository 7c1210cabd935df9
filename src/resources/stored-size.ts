import type { Conversation } from './conversation.ts';

/**
 * Size in bytes of what is stored of a conversation for its owner: the JSON of metadata and spec in
 * UTF-8, without managedFields. The bytes that were removed before the object was parsed count too,
 * as the API server has sent them. An API server that escapes `<`, `>` and `&` sends five bytes
 * more for each than this JSON has; caches, which alone remove bytes, agree with one another.
 */
export function storedBytesOf(
  { metadata, spec }: Pick<Conversation, 'spec'> & { readonly metadata: object },
  removedBytes = 0,
): number {
  return (
    Buffer.byteLength(
      JSON.stringify({ metadata: { ...metadata, managedFields: undefined }, spec }),
    ) + removedBytes
  );
}
