import fc from 'fast-check';
import { withAgentError } from '../../../src/controllers/conversation/execution/decide.ts';
import { withRunUnknown } from '../../../src/controllers/conversation/execution/sandbox-away.ts';
import { beginningOf, plainText } from '../../../src/resources/plain-text.ts';
import { resumeRequestedAnnotation, resumeRequestOf } from '../../../src/resources/sandbox.ts';
import { aSandbox, noon } from '../../support/builders.ts';

const text = fc.string({ unit: fc.constantFrom('a', '\u{1f600}', 'é', '\n'), maxLength: 30 });

describe('the beginning of a text', () => {
  it.each([
    ['beginningOf', beginningOf],
    ['plainText', plainText],
  ])('is as long as it may be, and has no half of a character: %s', (_name, shorten) => {
    fc.assert(
      fc.property(text, fc.nat(20), (whole, maxLength) => {
        const beginning = shorten(whole, maxLength);
        expect(whole.startsWith(beginning)).toBe(true);
        expect(beginning.isWellFormed()).toBe(true);
        expect(beginning.length).toBeLessThanOrEqual(maxLength);
        expect(beginning.length).toBeGreaterThanOrEqual(Math.min(whole.length, maxLength - 1));
      }),
    );
  });
});

/** Fields of a status that hold the beginning of a text that the operator does not write. */
const fields: readonly (readonly [string, (given: string) => string | undefined])[] = [
  [
    'the request to resume a sandbox',
    (given) => {
      const sandbox = aSandbox();
      const annotations = { [resumeRequestedAnnotation]: given };
      return resumeRequestOf({ metadata: { ...sandbox.metadata, annotations } });
    },
  ],
  ['the error of an agent', (given) => withAgentError({}, given).executionDetail],
  [
    'the cause of an unreadable run',
    (given) =>
      withRunUnknown({ executionStatus: 'running' }, { sandbox: aSandbox(), why: given, now: noon })
        .executionDetail,
  ],
];

it.each(fields)('%s is stored without half of a character', (_name, stored) => {
  // One of the two texts has a character at its maximum length.
  for (const start of ['', 'x'])
    expect(stored(`${start}${'\u{1f600}'.repeat(2_000)}`)?.isWellFormed()).toBe(true);
});
