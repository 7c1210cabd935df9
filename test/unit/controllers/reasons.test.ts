import { readFileSync } from 'node:fs';
import { StartErrorCode } from '../../../src/controllers/conversation/start.ts';
import { SandboxFailure } from '../../../src/controllers/sandbox/decide.ts';
import { PodTroubleCode } from '../../../src/controllers/sandbox/pod-trouble.ts';
import { SandboxReason } from '../../../src/resources/sandbox.ts';

const page = readFileSync(new URL('../../../docs/reasons.md', import.meta.url), 'utf8');
/** Written with the quota, or never shown on its own. */
const notYet = new Set<string>([
  SandboxReason.admitted,
  SandboxReason.waitingForQuota,
  SandboxReason.quota,
  SandboxReason.idle,
  SandboxReason.maxActiveTime,
]);

it.each(
  [StartErrorCode, SandboxFailure, PodTroubleCode, SandboxReason]
    .flatMap((codes) => Object.values(codes))
    .filter((code) => !notYet.has(code)),
)('docs/reasons.md explains %s', (code) => {
  expect(page).toContain(code);
});
