import fc from 'fast-check';
import { dashedUuid, newUuid, parseUuid } from '@conversation-operator/base/uuid';
import {
  conversationIdOf,
  conversationIdOfStartTask,
  startTaskIdOf,
  uuidOf,
} from '../../../src/resources/ids.ts';

const uuid = fc.uuid().map((text) => text.replaceAll('-', ''));

describe('ids', () => {
  it('of start tasks lead back to their conversation, and are UUIDs of the same version', () => {
    fc.assert(
      fc.property(uuid, (id) => {
        const task = startTaskIdOf(id);
        expect(conversationIdOfStartTask(task)).toBe(id);
        expect(task).not.toBe(id);
        expect(parseUuid(task)).toBe(task);
        expect(task[12]).toBe(id[12]);
        expect(parseInt(task[16] ?? '', 16) >> 2).toBe(parseInt(id[16] ?? '', 16) >> 2);
      }),
    );
  });

  it('are taken with and without dashes, in either case', () => {
    fc.assert(
      fc.property(uuid, (id) => {
        expect(parseUuid(dashedUuid(id))).toBe(id);
        expect(parseUuid(id.toUpperCase())).toBe(id);
      }),
    );
  });

  it.each([
    '',
    'x',
    'deadbeef',
    '019aa6a6-5c4d',
    `${'0'.repeat(31)}g`,
    ` ${'0'.repeat(32)}`,
    '0'.repeat(33),
  ])('refuse %j', (text) => {
    expect(parseUuid(text)).toBeUndefined();
  });

  it('of new conversations are version 7 and sort by their time', () => {
    const ids = [1, 2, 1000, 1_800_000_000_000].map((ms) => newUuid(ms));
    expect([...ids].sort()).toEqual(ids);
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/);
  });

  it('of conversations with a name of their own depend on namespace and name alone', () => {
    const named = (namespace: string, name: string) => ({
      metadata: {
        namespace,
        name,
        uid: Math.random().toString(),
        resourceVersion: '1',
        creationTimestamp: '',
      },
    });
    expect(conversationIdOf(named('a', 'fix-it'))).toBe(uuidOf('conversation/a/fix-it'));
    expect(conversationIdOf(named('a', 'fix-it'))).not.toBe(conversationIdOf(named('b', 'fix-it')));
    expect(conversationIdOf(named('a', '0'.repeat(32)))).toBe('0'.repeat(32));
  });
});
