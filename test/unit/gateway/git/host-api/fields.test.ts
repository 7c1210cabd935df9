import { name, pageUrl, title } from '../../../../../src/gateway/git/host-api/fields.ts';
import { pullRequestsSchema } from '../../../../../src/resources/pull-request.ts';
import { noon } from '../../../../support/builders.ts';

const addressOf = (length: number, character = 'x') =>
  'https://git.example.com/'.padEnd(length, character);
const long = 'x'.repeat(100_000);

it('the status of a conversation holds each address, title and name that is read', () => {
  const record = {
    number: 1,
    url: pageUrl().parse(addressOf(2048)),
    title: title().parse(long),
    provider: 'forgejo',
    repository: 'acme/shop',
    draft: false,
    state: 'Open',
    head: name().parse(long),
    base: name().parse(long),
    stateTime: noon,
  };
  expect(pullRequestsSchema.safeParse([record]).error).toBeUndefined();
});

it.each([
  ['is too long', addressOf(2049)],
  ['becomes too long where it is encoded', addressOf(2048, 'é')],
])('an address that %s is none', (_sentence, address) => {
  expect(pageUrl().safeParse(address).success).toBe(false);
});
