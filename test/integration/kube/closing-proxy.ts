import { once } from 'node:events';
import net, { type AddressInfo, type Socket } from 'node:net';

/** Forwards bytes to a server, and closes every connection on request. */
export async function startClosingProxy(
  target: string,
): Promise<{ url: string; closeConnections: () => void; close: () => Promise<void> }> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  const proxy = net.createServer((inner) => {
    const outer = net.connect(Number(port), hostname);
    for (const [from, to] of [
      [inner, outer],
      [outer, inner],
    ] as const) {
      sockets.add(from);
      from.pipe(to);
      from.on('error', () => undefined);
      from.on('close', () => {
        sockets.delete(from);
        to.destroy();
      });
    }
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const closeConnections = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    closeConnections,
    close: async () => {
      closeConnections();
      proxy.close();
      await once(proxy, 'close');
    },
  };
}
