import { readFileSync } from 'node:fs';
import { StartErrorCode } from '../../../src/controllers/conversation/start/stage.ts';
import { SandboxFailure } from '../../../src/controllers/sandbox/decide.ts';
import { FailureCode } from '../../../src/controllers/sandbox/failure.ts';
import { problems } from '../../../src/gateway/errors/catalogue.ts';
import { CapExceeded } from '../../../src/quota/caps.ts';
import { ConversationCondition, FinishedReason } from '../../../src/resources/conversation.ts';
import { ownerRemedies } from '../../../src/resources/owner-remedies.ts';
import { ReadyReason, activeReason } from '../../../src/status/conversation-projection.ts';
import { notPausedReason } from '../../../src/resources/conditions.ts';
import { SandboxCondition, SandboxReason } from '../../../src/resources/sandbox.ts';

/** The page with each item of a list on one line. */
const page = readFileSync(new URL('../../../docs/reasons.md', import.meta.url), 'utf8').replaceAll(
  /\n {2,}(?!-)/g,
  ' ',
);
/** Never shown on its own. */
const notShown = new Set<string>([SandboxReason.admitted]);

it.each(
  [StartErrorCode, SandboxFailure, FailureCode, SandboxReason, FinishedReason, CapExceeded]
    .flatMap((codes) => Object.values(codes))
    .filter((code) => !notShown.has(code)),
)('docs/reasons.md explains %s', (code) => {
  expect(page).toContain(code);
});

it.each([
  ...Object.values(ConversationCondition).map((type) => ({ kind: 'Conversation', type })),
  ...Object.values(SandboxCondition).map((type) => ({ kind: 'Sandbox', type })),
])('docs/reasons.md explains the condition $type of a $kind', ({ kind, type }) => {
  expect(page).toMatch(new RegExp(`^- ${kind} \`${type}\`: [a-z]`, 'm'));
});

it.each([
  ...Object.values(ReadyReason),
  ...Object.values(FinishedReason),
  activeReason,
  notPausedReason,
])('docs/reasons.md explains the reason %s of a condition in a list', (reason) => {
  const others = '(?:`[A-Za-z]+`, )*';
  expect(page).toMatch(new RegExp(`^- ${others}\`${reason}\`(?:, \`[A-Za-z]+\`)*: [a-z]`, 'm'));
});

const limitStatuses = new Set<number>([413, 422, 429]);

it.each(
  Object.entries(problems).flatMap(([code, { status }]) =>
    limitStatuses.has(status) ? [{ code, status }] : [],
  ),
)(
  'docs/reasons.md explains the code $code of a limit, with its status $status',
  ({ code, status }) => {
    expect(page).toMatch(new RegExp(`^- \`${code}\` \\(${status}\\): [a-z\`]`, 'm'));
  },
);

describe('the sentences for the owner of a failed start', () => {
  it('are those of docs/reasons.md', () => {
    const section = page.split('## Why a start is in ERROR')[1]?.split('\n## ')[0] ?? '';
    const rows = [...section.matchAll(/^- `(?<code>[A-Z]\w+)`: .*“(?<mend>.+?)”/gm)];
    expect(Object.fromEntries(rows.map(([, code = '', remedy]) => [code, remedy]))).toEqual(
      ownerRemedies,
    );
  });

  it('belong to codes of starts and caps', () => {
    const codes = new Set<string>(
      [StartErrorCode, CapExceeded].flatMap((names) => Object.values(names)),
    );
    expect(Object.keys(ownerRemedies).filter((code) => !codes.has(code))).toEqual([]);
  });
});
