import { readFileSync } from 'node:fs';
import { StartErrorCode } from '../../../src/controllers/conversation/start.ts';
import { SandboxFailure } from '../../../src/controllers/sandbox/decide.ts';
import { TroubleCode } from '../../../src/controllers/sandbox/trouble.ts';
import { CapExceeded } from '../../../src/resources/cap-exceeded.ts';
import { FinishedReason } from '../../../src/resources/conversation.ts';
import { SandboxReason } from '../../../src/resources/sandbox.ts';

const page = readFileSync(new URL('../../../docs/reasons.md', import.meta.url), 'utf8');
/** Never shown on its own. */
const notShown = new Set<string>([SandboxReason.admitted]);

it.each(
  [StartErrorCode, SandboxFailure, TroubleCode, SandboxReason, FinishedReason, CapExceeded]
    .flatMap((codes) => Object.values(codes))
    .filter((code) => !notShown.has(code)),
)('docs/reasons.md explains %s', (code) => {
  expect(page).toContain(code);
});
