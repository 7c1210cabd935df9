import { readFileSync } from 'node:fs';
import { StartErrorCode } from '../../../src/controllers/conversation/start.ts';
import { SandboxFailure } from '../../../src/controllers/sandbox/decide.ts';
import { FailureCode } from '../../../src/controllers/sandbox/failure.ts';
import { problems } from '../../../src/gateway/errors/catalogue.ts';
import { CapExceeded } from '../../../src/resources/cap-exceeded.ts';
import { FinishedReason } from '../../../src/resources/conversation.ts';
import { SandboxReason } from '../../../src/resources/sandbox.ts';

const page = readFileSync(new URL('../../../docs/reasons.md', import.meta.url), 'utf8');
/** Never shown on its own. */
const notShown = new Set<string>([SandboxReason.admitted]);

it.each(
  [StartErrorCode, SandboxFailure, FailureCode, SandboxReason, FinishedReason, CapExceeded]
    .flatMap((codes) => Object.values(codes))
    .filter((code) => !notShown.has(code)),
)('docs/reasons.md explains %s', (code) => {
  expect(page).toContain(code);
});

const limitStatuses = new Set<number>([413, 422, 429]);

it.each(Object.entries(problems).flatMap(([code, { status }]) => (limitStatuses.has(status) ? [{ code, status }] : [])))(
  'docs/reasons.md explains the code $code of a limit, with its status $status',
  ({ code, status }) => {
    expect(page).toMatch(new RegExp(`^\\| ${code} +\\| ${status} `, 'm'));
  },
);
