import { connect, createServer, type Socket } from 'node:net';
import { GitServer } from '../../support/git-server.ts';

/**
 * The world outside of the cluster, in a network namespace of its own, at every address that this
 * namespace has: a git host with the public repository acme/shop on port 8080, and servers that
 * accept connections on 9090 and, like the metadata service of a cloud, on 80.
 */
const gitPort = 8080;
const otherPorts = [80, 9090];

const git = await GitServer.start({ repositories: { 'acme/shop': {} } });
const listen = (port: number, serve: (socket: Socket) => void) =>
  createServer((socket) => {
    socket.on('error', () => socket.destroy());
    serve(socket);
  }).listen(port, '::');

listen(gitPort, (client) => {
  const server = connect(Number(new URL(git.url).port), '127.0.0.1');
  server.on('error', () => client.destroy());
  client.on('close', () => server.destroy());
  client.pipe(server).pipe(client);
});
for (const port of otherPorts) listen(port, (socket) => socket.end());

process.once('SIGTERM', () => void git.stop().finally(() => process.exit(0)));
console.log('outside is ready');
