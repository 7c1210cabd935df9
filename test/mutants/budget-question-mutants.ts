import type { TestedMutant } from './tested-mutant.ts';

const decisions = 'src/controllers/conversation/budget/decide.ts';
const questions = 'src/controllers/conversation/budget/budget-questions.ts';
const exhaustions = 'src/gateway/models/budget-exhaustions.ts';
const decisionsTest = 'test/unit/controllers/conversation/budget/decide.test.ts';
const exhaustionsTest = 'test/unit/gateway/models/budget-exhaustions.test.ts';
const world = {
  test: 'test/simulation/budget/budget-questions.test.ts',
  name: 'a raise counts once, and a run goes on after it and not before',
};

/** Mistakes at the end of a budget; each name is the mistake. */
export const budgetQuestionMutants: Readonly<Record<string, TestedMutant>> = {
  'a repeated raise counts again': {
    file: decisions,
    from: "if (raises.some(({ id }) => id === raise.id)) return { kind: 'done' };",
    to: '',
    test: decisionsTest,
    name: 'counts a repeated raise once',
  },
  'an owner raises more than maxRaise': {
    file: decisions,
    from: 'if (raise.admin !== true &&',
    to: 'if (raise.admin === true &&',
    test: decisionsTest,
    name: 'more than the owner may add',
  },
  'a run continues while the question about its budget is open': {
    ...world,
    file: 'src/controllers/conversation/execution/decide.ts',
    from: 'status.budgetExhaustion === undefined && (reason !== Interruption.user || runRequested)',
    to: '(reason !== Interruption.user || runRequested)',
  },
  'a run whose budget got room before the question never continues': {
    ...world,
    file: questions,
    from: 'scope.status = withBudgetRoom(status, now);',
    to: 'scope.status = withBudgetQuestionWithdrawn(status, now);',
  },
  'a run that its agent counts as finished never continues after a raise': {
    ...world,
    file: 'src/controllers/conversation/execution/decide.ts',
    from: 'isBudgetEnd ||',
    to: '',
  },
  'the error of a refused call ends the run for good': {
    ...world,
    file: 'src/controllers/conversation/execution/run-observer.ts',
    from: 'status.interruption?.reason !== Interruption.budget &&',
    to: '',
  },
  'a sandbox resumes for a question that nobody has answered': {
    test: 'test/unit/quota/classify.budget.test.ts',
    name: 'stays paused while the question is open',
    file: 'src/quota/idleness.ts',
    from: "status?.executionStatus === 'paused' && status.budgetExhaustion === undefined &&",
    to: "status?.executionStatus === 'paused' &&",
  },
  'a refusal that comes soon after an earlier one is forgotten': {
    file: exhaustions,
    from: 'look.next = call;',
    to: '',
    test: exhaustionsTest,
    name: 'stores the refusal of a run that began just after',
  },
  'a question is about another budget than its answer raises': {
    file: exhaustions,
    from: 'if (approval !== undefined && isBudgetQuestion(approval)) return false;',
    to: '',
    test: exhaustionsTest,
    name: 'keeps the budget of an open question',
  },
};
