import { answerDraft, assertSameAnswer, type Decision } from '../src/approvals.ts';
import { DerivedState } from '../src/derived-state.ts';
import type { ApprovalRequest, EventBody } from '../src/events.ts';
import { HttpError } from '../src/router.ts';

const aQuestion = (kinds: readonly string[], id = 'q'): ApprovalRequest => ({
  id,
  tool_call_id: 'call',
  title: 'Run x',
  tool_kind: 'execute',
  input: null,
  options: kinds.map((kind) => ({ option_id: `id-${kind}`, name: kind, kind })),
});
const all = ['reject_once', 'allow_once', 'allow_always'];
const approve: Decision = { accept: true, reason: '' };
const reject: Decision = { accept: false, reason: 'no' };

/** The status and the text of what a function throws. */
function thrownBy(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof HttpError) return `${error.status} ${JSON.stringify(error.detail)}`;
    throw error;
  }
  return 'nothing';
}

describe('the answer to a question', () => {
  it.each<[string, readonly string[], Decision, string | null]>([
    ['allows this call alone', all, approve, 'id-allow_once'],
    ['rejects this call alone', all, reject, 'id-reject_once'],
    [
      'has the option of its id',
      all,
      { ...approve, optionId: 'id-allow_always' },
      'id-allow_always',
    ],
    ['rejects without an option to reject', ['allow_once'], reject, null],
    ['rejects where only options for ever allow', ['allow_always'], reject, null],
  ])('%s', (_case, kinds, decision, optionId) => {
    expect(answerDraft(aQuestion(kinds), decision).event).toMatchObject({
      key: 'approval_answer',
      value: { id: 'q', option_id: optionId },
    });
  });

  it.each<[string, readonly string[], Decision, string]>([
    ['an unknown option', all, { ...approve, optionId: 'x' }, 'id-allow_once (allow_once)'],
    ['no option to allow once', ['allow_always'], approve, 'id-allow_always (allow_always)'],
    ['no option at all', [], approve, 'none'],
    [
      'an approval by an option to reject',
      all,
      { ...approve, optionId: 'id-reject_once' },
      'accept',
    ],
    ['a rejection by an option to allow', all, { ...reject, optionId: 'id-allow_once' }, 'accept'],
  ])('is invalid with %s', (_case, kinds, decision, text) => {
    const thrown = thrownBy(() => answerDraft(aQuestion(kinds), decision));
    expect(thrown).toMatch(/^422 /);
    expect(thrown).toContain(text);
  });
});

describe('an answer to a question that does not wait', () => {
  const state = new DerivedState();
  const apply = (key: string, value: unknown) =>
    state.apply({
      id: 'e',
      timestamp: '2026-01-01T00:00:00.000000',
      ...({ kind: 'ConversationStateUpdateEvent', source: 'environment', key, value } as EventBody),
    });
  for (let index = 0; index < 20; index++) {
    const id = `q${index}`;
    apply('approval_request', aQuestion(all, id));
    apply('approval_answer', { id, option_id: 'id-allow_once', reason: null });
  }

  it.each<[string, string, Decision, string]>([
    ['the same decision', 'q19', approve, 'nothing'],
    ['the same option', 'q19', { ...approve, optionId: 'id-allow_once' }, 'nothing'],
    ['another decision', 'q19', reject, '409 "The question q19 has another answer already."'],
    [
      'another option',
      'q19',
      { ...approve, optionId: 'id-allow_always' },
      '409 "The question q19 has another answer already."',
    ],
    ['an old question', 'q3', approve, '409 "The question q3 does not wait for an answer."'],
    ['an unknown question', 'x', approve, '409 "The question x does not wait for an answer."'],
  ])('%s', (_case, id, decision, result) => {
    expect(thrownBy(() => assertSameAnswer(id, state.answered.get(id), decision))).toBe(result);
  });
});
