import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { listPieces, listText, plainFrame } from '../../src/body/send-chunks.ts';
import { sendJsonText, type JsonText } from '../../src/body/send-json.ts';

/** The answer of a server that sends this once, and the length that it has returned. */
async function sent(body: JsonText) {
  const lengths: number[] = [];
  const answer = (response: ServerResponse) => lengths.push(sendJsonText(response, 200, body));
  const server = createServer((_request, response) => answer(response)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const { port } = server.address() as AddressInfo;
    const response = await fetch(`http://127.0.0.1:${port}`);
    return {
      text: await response.text(),
      length: Number(response.headers.get('content-length')),
      returned: lengths,
    };
  } finally {
    server.close();
  }
}

describe('sendJsonText', () => {
  it.each<[string, readonly string[]]>([
    ['no item', []],
    ['one item', ['{"a":1}']],
    ['items with characters of several bytes', ['"ü"', '"😀"', 'null']],
    ['many items', Array.from({ length: 2000 }, (_, index) => `{"n":${index}}`)],
  ])('sends pieces as it sends their text: %s', async (_name, items) => {
    const text = listText(plainFrame, items);
    const pieces = listPieces(
      plainFrame,
      items.map((item) => Buffer.from(item)),
    );
    const length = Buffer.byteLength(text);
    expect(await sent(pieces)).toEqual({ text, length, returned: [length] });
    expect(await sent(text)).toEqual({ text, length, returned: [length] });
  });
});
