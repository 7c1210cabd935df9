import { createConnection } from 'node:net';

/**
 * Opens watches on the Sandboxes of an API server, each on a socket of its own, and throws away
 * what they say. Prints a line once all of them have heard of a change.
 */
const [url = '', token = '', count = '0', resourceVersion = ''] = process.argv.slice(2);
const { hostname, port } = new URL(url);
const path = `/apis/conversation-operator.dev/v1alpha1/sandboxes?watch=true&timeoutSeconds=600&resourceVersion=${resourceVersion}`;
let streaming = 0;
for (let index = 0; index < Number(count); index++) {
  const socket = createConnection({ host: hostname, port: Number(port) });
  socket.write(
    `GET ${path} HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${token}\r\n\r\n`,
  );
  let heard = false;
  socket.on('data', (chunk) => {
    if (heard || !chunk.includes('"MODIFIED"')) return;
    heard = true;
    streaming++;
    if (streaming === Number(count)) process.stdout.write('streaming\n');
  });
}
