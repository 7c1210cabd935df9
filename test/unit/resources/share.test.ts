import { isShareOf } from '../../../src/resources/share.ts';

const spec = (owner: string, handovers?: number) => ({
  owner,
  templateName: 'default',
  ...(handovers === undefined ? {} : { handovers }),
});
const shareOf = (handovers?: number) =>
  ({
    spec: {
      owner: 'alice',
      conversation: {
        name: 'one',
        uid: 'first',
        ...(handovers === undefined ? {} : { handovers }),
      },
    },
  }) as Parameters<typeof isShareOf>[0];
const conversation = (uid: string, of: ReturnType<typeof spec>) =>
  ({ metadata: { name: 'one', uid }, spec: of }) as Parameters<typeof isShareOf>[1];

it.each([
  ['shared', shareOf(), conversation('first', spec('alice')), true],
  ['shared after a handover', shareOf(2), conversation('first', spec('alice', 2)), true],
  ['made again', shareOf(), conversation('second', spec('alice')), false],
  ['with another owner', shareOf(), conversation('first', spec('bob', 1)), false],
  ['that has come back', shareOf(), conversation('first', spec('alice', 2)), false],
])('a share opens the conversation that was shared alone: %s', (_name, share, current, opens) => {
  expect(isShareOf(share, current)).toBe(opens);
});
