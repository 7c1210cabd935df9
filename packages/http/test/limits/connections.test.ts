import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { silentLogger } from '@conversation-operator/base/logger';
import { Refusal } from '../../src/refusal.ts';
import { trustedProxies } from '../../src/limits/client-address.ts';
import { quarterShares } from './quarter-shares.ts';
import { Connections } from '../../src/limits/connections.ts';

const aSocket = (remoteAddress = '192.0.2.1') =>
  Object.assign(new EventEmitter(), { remoteAddress, destroy: () => undefined });
const setUp = (max: number, trusted: readonly string[] = []) => {
  const counter = { inc: () => undefined };
  const connections = new Connections({
    places: quarterShares(max || Infinity),
    proxies: trustedProxies(trusted),
    metrics: { droppedConnections: counter, evictedConnections: counter },
    logger: silentLogger,
  });
  const known = new Set<unknown>();
  return (socket: ReturnType<typeof aSocket>, owner: string): string => {
    const connection = socket as unknown as Socket;
    if (!known.has(socket)) connections.admit(connection);
    known.add(socket);
    try {
      connections.attribute(connection, { owner });
      return 'ok';
    } catch (error) {
      return error instanceof Refusal
        ? `${error.code} ${error.headers['connection'] ?? ''}`
        : String(error);
    }
  };
};

describe('the connections of an owner', () => {
  it('are a quarter of all; the next one is refused and closed, until one of them ends', () => {
    const attribute = setUp(8);
    const [first, second, third] = [aSocket(), aSocket(), aSocket()];
    expect([
      attribute(first, 'alice'),
      attribute(first, 'alice'),
      attribute(second, 'alice'),
    ]).toEqual(['ok', 'ok', 'ok']);
    expect(attribute(third, 'alice')).toBe('share-exceeded close');
    expect(attribute(aSocket(), 'bob')).toBe('ok');
    first.emit('close');
    expect(attribute(third, 'alice')).toBe('ok');
  });

  it('are those on which it has asked last', () => {
    const attribute = setUp(4);
    const socket = aSocket();
    for (let turn = 0; turn < 50; turn++)
      expect(attribute(socket, turn % 2 === 0 ? 'alice' : 'bob')).toBe('ok');
    expect(attribute(aSocket(), 'alice')).toBe('ok');
    expect(attribute(aSocket(), 'bob')).toBe('share-exceeded close');
    expect(socket.listenerCount('close')).toBe(1);
  });

  it('are not counted without a limit, nor where a trusted proxy carries the requests of many', () => {
    const unlimited = setUp(0);
    const behind = setUp(4, ['192.0.2.1']);
    for (let count = 0; count < 10; count++)
      expect([unlimited(aSocket(), 'alice'), behind(aSocket(), 'alice')]).toEqual(['ok', 'ok']);
  });
});
