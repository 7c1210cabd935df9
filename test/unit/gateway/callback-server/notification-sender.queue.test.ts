import { NotificationQueue } from '../../../../src/gateway/callback-server/notification-sender.ts';

const queue = (limits = {}) =>
  new NotificationQueue({ maxSandboxesPerOwner: 3, maxOwners: 3, ...limits });
const notification = (sandbox: string, conversationId?: string) => ({
  namespace: 'agents',
  sandbox,
  ...(conversationId === undefined ? {} : { conversationId }),
});
const names = (
  notifications: readonly {
    readonly sandbox: string;
    readonly conversationId?: string | undefined;
  }[],
) => notifications.map(({ sandbox, conversationId = 'any' }) => `${sandbox}/${conversationId}`);

describe('notifications that wait for an operator', () => {
  it('are taken of the owners by turns, of each oldest first, each once', () => {
    const waiting = queue();
    for (const sandbox of ['a1', 'a2', 'a1', 'a3'])
      waiting.add('alice', notification(sandbox, '1'));
    waiting.add('bob', notification('b1', '1'));
    expect(names(waiting.take(3))).toEqual(['a1/1', 'b1/1', 'a2/1']);
    expect(names(waiting.take(3))).toEqual(['a3/1']);
    expect([waiting.isEmpty, waiting.take(3)]).toEqual([true, []]);
  });

  it('are taken up to a number, and the rest the next time', () => {
    const waiting = queue();
    for (const id of ['1', '2', '3']) waiting.add('alice', notification('a1', id));
    waiting.add('bob', notification('b1'));
    expect(names(waiting.take(2))).toEqual(['a1/1', 'a1/2']);
    expect(names(waiting.take(9))).toEqual(['b1/any', 'a1/3']);
  });

  it('of many conversations of one sandbox are one for all of them', () => {
    const waiting = queue();
    for (let id = 0; id < 1000; id++) waiting.add('alice', notification('a1', String(id)));
    expect(names(waiting.take(9))).toEqual(['a1/any']);
    waiting.add('alice', notification('a1', '1'));
    waiting.add('alice', notification('a1'));
    expect(names(waiting.take(9))).toEqual(['a1/any']);
  });

  it('of an owner with many sandboxes displace its own alone', () => {
    const waiting = queue();
    waiting.add('bob', notification('b1', '1'));
    for (let index = 0; index < 10; index++) waiting.add('alice', notification(`a${index}`, '1'));
    expect(names(waiting.take(99))).toEqual(['b1/1', 'a7/1', 'a8/1', 'a9/1']);
  });
});
