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

const holdTest = 'test/unit/controllers/conversation/budget/start-hold.test.ts';
const held = {
  test: 'test/simulation/budget/held-starts.test.ts',
  name: 'a start of an exhausted owner gets no sandbox',
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
  'a start gets a sandbox although the budget is used up': {
    ...held,
    file: 'src/controllers/conversation/start/choose-sandbox.ts',
    from: 'undefined : options.holdOf(stored);',
    to: 'undefined : undefined;',
  },
  'a start that has waited for a budget waits for good': {
    ...held,
    file: 'src/controllers/conversation/start/choose-sandbox.ts',
    from: 'if (hold !== undefined) {',
    to: 'if (hold !== undefined || status.start?.errorCode === StartErrorCode.waitingForBudget) { if (hold === undefined) return { status };',
  },
  'a start whose sandbox is made waits for the budget': {
    test: holdTest,
    name: 'goes on if an attempt before has made its sandbox',
    file: 'src/controllers/conversation/start/choose-sandbox.ts',
    from: 'made.byIndex(byMadeFor, madeForKeyOf(stored)).length > 0 ? undefined :',
    to: '',
  },
  'an owner holds up the starts of others': {
    test: holdTest,
    name: 'has refused a call of somebody else',
    file: 'src/controllers/conversation/budget/start-hold.ts',
    from: '.filter(({ spec }) => spec.owner === owner)',
    to: '',
  },
  'a call that is too large holds up starts': {
    test: holdTest,
    name: 'has refused a large call, and has much left',
    file: 'src/quota/budgets.ts',
    from: 'const usedUp = 0.9;',
    to: 'const usedUp = 0;',
  },
  'a start that waits for a budget does not notice a raise': {
    test: 'test/unit/controllers/conversation/controllers.test.ts',
    name: 'look at the starts that wait for a budget',
    file: 'src/controllers/conversation/controllers.ts',
    from: ': conversations.byIndex(byHeldStart, namespace)',
    to: ': []',
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
