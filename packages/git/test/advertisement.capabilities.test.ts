import { Readable } from 'node:stream';
import { withoutCapabilities } from '../src/advertisement.ts';
import { flush, packet } from '../src/pkt-line.ts';

const one = '1'.repeat(40);
const head = (capabilities: string): string =>
  packet('# service=git-receive-pack\n') +
  flush +
  packet(`${one} refs/heads/ünï\0${capabilities}\n`);
const rest = `${packet(`${one} refs/heads/push-options\n`)}${flush}`;

async function shown(body: string | Buffer, size = 65_536): Promise<string> {
  const bytes = Buffer.from(body);
  const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
    bytes.subarray(index * size, (index + 1) * size),
  );
  const passed = withoutCapabilities(Readable.from(pieces), new Set(['push-options']));
  return Buffer.concat(await Array.fromAsync(passed)).toString();
}

it.each<[string, string, string]>([
  ['among others', head('report-status push-options atomic'), head('report-status atomic')],
  ['with a value', head('report-status push-options=1'), head('report-status')],
  ['alone', head('push-options'), head('')],
  ['in the name of another one', head('x-push-options'), head('x-push-options')],
  [
    'behind a line of the version',
    packet('# service=git-receive-pack\n') +
      flush +
      packet('version 1') +
      packet(`${one} HEAD\0push-options`),
    packet('# service=git-receive-pack\n') + flush + packet('version 1') + packet(`${one} HEAD\0`),
  ],
])('the capability is left out %s', async (_what, offered, expected) => {
  for (const size of [1, 7, 65_536])
    expect(await shown(offered + rest, size)).toBe(expected + rest);
});

it.each<[string, string]>([
  ['nothing', ''],
  ['a page', '<html>push-options</html>'],
  ['a truncated list', head('push-options').slice(0, -3)],
  ['references without capabilities', packet(`${one} refs/heads/main\n`).repeat(100_000)],
])('%s passes unchanged', async (_what, body) => {
  expect(await shown(body)).toBe(body);
});
