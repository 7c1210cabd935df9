import fc from 'fast-check';
import { FrameFollower, closeFrame } from '../../src/proxy/tunnel.ts';

function frame(opcode: number, length: number, masked: boolean): Buffer {
  const mask = masked ? 0x80 : 0;
  const head =
    length < 126
      ? Buffer.of(0x80 | opcode, mask | length)
      : length < 65_536
        ? Buffer.from([0x80 | opcode, mask | 126, length >> 8, length & 255])
        : Buffer.from([
            0x80 | opcode,
            mask | 127,
            0,
            0,
            0,
            0,
            0,
            length >> 16,
            (length >> 8) & 255,
            length & 255,
          ]);
  return Buffer.concat([head, Buffer.alloc(masked ? 4 : 0, 0x81), Buffer.alloc(length, 0x88)]);
}

const anyFrame = fc.record({
  opcode: fc.constantFrom(0, 1, 2, 8, 9, 10),
  length: fc.constantFrom(0, 1, 125, 126, 200, 65_535, 65_536, 70_000),
  masked: fc.boolean(),
});

describe('following frames', () => {
  it('knows every boundary, however the bytes are split', () => {
    fc.assert(
      fc.property(
        fc.array(anyFrame, { minLength: 1, maxLength: 5 }),
        fc.array(fc.integer({ min: 1, max: 50_000 }), { minLength: 1 }),
        (frames, sizes) => {
          const parts = frames.map(({ opcode, length, masked }) => frame(opcode, length, masked));
          const bytes = Buffer.concat(parts);
          const ends = new Set([0]);
          let end = 0;
          for (const part of parts) ends.add((end += part.length));
          const follower = new FrameFollower();
          let at = 0;
          for (let turn = 0; at < bytes.length; turn++) {
            const size = sizes[turn % sizes.length] ?? 1;
            at += follower.read(bytes.subarray(at, at + size));
            expect(follower.isBetweenFrames).toBe(ends.has(at));
          }
          expect(follower.hasClose).toBe(frames.some(({ opcode }) => opcode === 8));
        },
      ),
      { numRuns: 100 },
    );
  });

  it('stops at the end of the frame it is in when it is asked to', () => {
    const follower = new FrameFollower();
    const first = frame(1, 10, false);
    follower.read(first.subarray(0, 4));
    expect(
      follower.read(Buffer.concat([first.subarray(4), frame(1, 5, false)]), { toFrameEnd: true }),
    ).toBe(first.length - 4);
    expect(follower.isBetweenFrames).toBe(true);
  });

  it('sees its own close frames as such', () => {
    for (const towards of ['client', 'server'] as const) {
      const follower = new FrameFollower();
      follower.read(closeFrame(1012, towards));
      expect(follower).toMatchObject({ hasClose: true, isBetweenFrames: true });
    }
    expect(closeFrame(1012, 'client')).toEqual(Buffer.of(0x88, 2, 0x03, 0xf4));
  });
});
