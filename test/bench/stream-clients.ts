import { get } from 'node:http';

/**
 * Clients of /api/v1/stream, as many for each key as the argument says. Prints a line once each of
 * them has its state, and afterwards each second how many events of conversations all have had.
 */
const [port = '', perKey = '', ...keys] = process.argv.slice(2);
const streams = keys.flatMap((key) => Array.from({ length: Number(perKey) }, () => key));
let waiting = streams.length;
let events = 0;

for (const key of streams) {
  const headers = { authorization: `Bearer ${key}` };
  const request = get({ port: Number(port), path: '/api/v1/stream', headers, agent: false });
  request.on('response', (response) => {
    if (response.statusCode !== 200)
      throw new Error(`a stream was answered by ${response.statusCode ?? ''}`);
    let isWaiting = true;
    let end = '';
    response.on('data', (chunk: Buffer) => {
      if (isWaiting) {
        const text = end + chunk.toString('latin1');
        end = text.slice(-64);
        if (!text.includes('"last":true}\n')) return;
        isWaiting = false;
        waiting -= 1;
        if (waiting === 0) process.stdout.write('open\n');
        return;
      }
      for (
        let at = chunk.indexOf('\nevent: conv');
        at >= 0;
        at = chunk.indexOf('\nevent: conv', at + 1)
      )
        events += 1;
    });
    response.on('close', () => {
      throw new Error('a stream was closed');
    });
  });
}
setInterval(() => {
  if (waiting === 0) process.stdout.write(`${events}\n`);
}, 1000);
