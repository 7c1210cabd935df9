import { writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { GitServer } from '../../support/git-server.ts';
import { startOutside } from '../../support/outside.ts';
import { ModelServer } from '../../support/model-server.ts';
import { privateAuthority } from '../../support/private-authority.ts';
import {
  gitPort,
  hiddenHost,
  hiddenModelHost,
  modelAnswer,
  modelPort,
  proxyPort,
} from './places.ts';

/**
 * The world outside of the cluster, in a network namespace of its own, at every address that this
 * namespace has: a git host with the public repository acme/shop on port 8080, a model on 8081, and
 * servers that accept connections on 9090 and, like the metadata service of a cloud, on 80. A
 * forward proxy on 3128 reaches two hosts more, a git host with the same repository and a model,
 * which listen at no address that the cluster reaches. Their certificate is of a private authority.
 *
 * usage: node outside.ts FILE, into which the certificate of the authority is written
 */
const [authorityFile = ''] = process.argv.slice(2);
const otherPorts = [80, 9090];

const git = await GitServer.start({ repositories: { 'acme/shop': {} } });
const model = await ModelServer.start({ text: modelAnswer });
const listen = (port: number, serve: (socket: Socket) => void) =>
  createServer((socket) => {
    socket.on('error', () => socket.destroy());
    serve(socket);
  }).listen(port, '::');

const forward = (port: number, url: string) =>
  listen(port, (client) => {
    const server = connect(Number(new URL(url).port), '127.0.0.1');
    server.on('error', () => client.destroy());
    client.on('close', () => server.destroy());
    client.pipe(server).pipe(client);
  });
forward(gitPort, git.url);
forward(modelPort, model.baseUrl);
const authority = privateAuthority([hiddenHost, hiddenModelHost]);
const proxy = await startOutside({
  authority,
  address: '::',
  port: proxyPort,
  https: { [hiddenHost]: git.url, [hiddenModelHost]: model.baseUrl },
});
writeFileSync(authorityFile, authority.ca);
for (const port of otherPorts) listen(port, (socket) => socket.end());

const stop = async (): Promise<void> => {
  await proxy[Symbol.asyncDispose]();
  await Promise.all([git.stop(), model.close()]);
};
process.once('SIGTERM', () => void stop().finally(() => process.exit(0)));
console.log('outside is ready');
