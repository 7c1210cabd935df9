import { ByteGatherer } from '../../src/body/json-body.ts';

it('holds little more than the bytes of its chunks, and copies them a few times, also when each chunk has one byte', () => {
  const count = 200_000;
  const gathered = new ByteGatherer();
  const chunk = Buffer.alloc(1);
  let buffers = 0;
  let last: ArrayBufferLike | undefined;
  for (let index = 0; index < count; index++) {
    // The next chunk overwrites this one, so that a gatherer that keeps chunks fails.
    chunk[0] = index % 256;
    gathered.add(chunk);
    const { buffer } = gathered.bytes();
    if (buffer !== last) buffers += 1;
    last = buffer;
  }
  const bytes = gathered.bytes();
  expect(bytes.equals(Buffer.from(Array.from({ length: count }, (_, index) => index % 256)))).toBe(
    true,
  );
  expect(bytes.buffer.byteLength).toBeLessThanOrEqual(2 * count);
  expect(buffers).toBeLessThanOrEqual(10);
});
