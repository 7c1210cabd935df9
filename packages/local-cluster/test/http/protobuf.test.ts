import { jsonOfProtobuf } from '../../src/http/protobuf.ts';

const field = (number: number, content: string | Buffer): Buffer => {
  const bytes = Buffer.from(content as string);
  return Buffer.concat([Buffer.of((number << 3) | 2, bytes.length), bytes]);
};
const entry = (key: string, value: string) => Buffer.concat([field(1, key), field(2, value)]);
const envelope = (apiVersion: string, kind: string, raw: Buffer) =>
  Buffer.concat([
    Buffer.from('k8s\0'),
    field(1, Buffer.concat([field(1, apiVersion), field(2, kind)])),
    field(2, raw),
  ]);

describe('protobuf', () => {
  it('of a ConfigMap is read', () => {
    const metadata = field(
      1,
      Buffer.concat([field(1, 'cm'), field(2, ''), field(11, entry('a', 'b'))]),
    );
    const body = Buffer.concat([metadata, field(2, entry('k', 'v')), field(2, entry('l', ''))]);
    expect(JSON.parse(jsonOfProtobuf(envelope('v1', 'ConfigMap', body)))).toEqual({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'cm', labels: { a: 'b' } },
      data: { k: 'v', l: '' },
    });
  });

  it('of a Secret has its bytes in base 64', () => {
    const body = field(2, entry('k', 'v'));
    expect(JSON.parse(jsonOfProtobuf(envelope('v1', 'Secret', body)))).toMatchObject({
      data: { k: 'dg==' },
    });
  });

  it.each([
    ['of another kind', envelope('v1', 'Pod', Buffer.alloc(0)), 'unknown format'],
    ['without its magic', Buffer.from('{}{}'), 'protobuf form'],
    ['that is truncated', envelope('v1', 'ConfigMap', Buffer.of(0x0a, 0x7f)), 'truncated'],
  ])('%s is refused', (_, bytes, message) => {
    expect(() => jsonOfProtobuf(bytes)).toThrow(message);
  });
});
