import fc from 'fast-check';
import { FirstMessage, textFrame } from '../../src/proxy/tunnel.ts';

const mask = [1, 2, 3, 4] as const;
function frame(first: number, payload: Buffer, masked = true): Buffer {
  const size =
    payload.length < 126 ? [payload.length] : [126, payload.length >> 8, payload.length & 255];
  const head = Buffer.from([
    first,
    (size[0] ?? 0) | (masked ? 0x80 : 0),
    ...size.slice(1),
    ...(masked ? mask : []),
  ]);
  return Buffer.concat([
    head,
    masked ? payload.map((byte, index) => byte ^ (mask[index % 4] ?? 0)) : payload,
  ]);
}
const text = (content: string, first = 0x81) => frame(first, Buffer.from(content));
const ping = frame(0x89, Buffer.from('ping'));
const close = frame(0x88, Buffer.of(3, 232));

describe('the first message', () => {
  it('is read however its bytes are split, and in however many frames it comes', () => {
    const pieces = fc.array(fc.string({ unit: 'grapheme', maxLength: 80 }), {
      minLength: 1,
      maxLength: 5,
    });
    fc.assert(
      fc.property(
        pieces,
        fc.array(fc.boolean()),
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }),
        (contents, pings, sizes) => {
          const parts: Buffer[] = [];
          const controls: Buffer[] = [];
          for (const [index, content] of contents.entries()) {
            if (pings[index] === true) {
              parts.push(ping);
              controls.push(ping);
            }
            parts.push(
              text(content, (index === contents.length - 1 ? 0x80 : 0) | (index === 0 ? 1 : 0)),
            );
          }
          const message = Buffer.concat(parts);
          const rest = Buffer.from([0x81, 0x85, 9, 9]);
          const bytes = Buffer.concat([message, rest]);
          const reader = new FirstMessage();
          const passed: Buffer[] = [];
          for (let at = 0, turn = 0; at < bytes.length; turn++) {
            const chunk = bytes.subarray(at, (at += sizes[turn % sizes.length] ?? 1));
            const result = reader.read(chunk);
            passed.push(result.controls);
            if (result.state === 'waiting') continue;
            expect(result).toMatchObject({ state: 'complete', text: contents.join('') });
            if (result.state === 'complete')
              expect(Buffer.concat([result.rest, bytes.subarray(at)])).toEqual(rest);
            expect(Buffer.concat(passed)).toEqual(Buffer.concat(controls));
            return;
          }
          throw new Error('the message was never complete');
        },
      ),
      { numRuns: 200 },
    );
  });

  it.each<[string, Buffer]>([
    ['of bytes', frame(0x82, Buffer.from('x'))],
    ['that is compressed', text('x', 0xc1)],
    ['without a mask', frame(0x81, Buffer.from('x'), false)],
    ['that begins in the middle', text('x', 0x80)],
    ['that begins twice', Buffer.concat([text('x', 0x01), text('y', 0x81)])],
    ['that is too large', text('x'.repeat(9000))],
    [
      'that says it is too large',
      Buffer.from([0x81, 0xff, 0x7f, 255, 255, 255, 255, 255, 255, 255, 1, 2, 3, 4]),
    ],
    [
      'that is too large in pieces',
      Buffer.concat(
        Array.from({ length: 100 }, (_, index) => text('x'.repeat(100), index === 0 ? 1 : 0)),
      ),
    ],
    [
      'in frames of nothing',
      Buffer.concat(Array.from({ length: 2000 }, (_, index) => text('', index === 0 ? 1 : 0))),
    ],
  ])('%s is refused', (_case, bytes) => {
    expect(new FirstMessage().read(bytes).state).toBe('refused');
  });

  it('may be none: a close frame goes through', () => {
    expect(new FirstMessage().read(Buffer.concat([close, text('x')]))).toEqual({
      state: 'waiting',
      controls: close,
    });
  });

  it.each([0, 1, 125, 126, 60_000])('of %i bytes is written as it is read', (length) => {
    const content = 'x'.repeat(length);
    const written = textFrame(content);
    expect(new FirstMessage().read(written)).toEqual(
      length > 8192
        ? { state: 'refused', controls: Buffer.alloc(0) }
        : { state: 'complete', controls: Buffer.alloc(0), text: content, rest: Buffer.alloc(0) },
    );
  });
});
