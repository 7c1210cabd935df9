import type { TestedMutant } from './tested-mutant.ts';

const acpProgram = 'packages/agent-server/src/acp/program.ts';
const acpTest = 'packages/agent-server/test/acp/program.test.ts';
const questionText = 'src/agent/question-text.ts';
const questionTest = 'test/unit/agent/question-text.test.ts';
const openhandsQuestions = 'src/agent/openhands-questions.ts';
const openhandsTest = 'test/unit/agent/openhands-questions.test.ts';
const routes = 'src/gateway/approvals/approvals.ts';
const routesTest = 'test/integration/gateway/approvals.test.ts';
const operatorTest = 'test/unit/controllers/conversation/approvals/approvals.test.ts';
const delivery = 'src/controllers/conversation/messages/delivery.ts';
const runRequest = 'src/controllers/conversation/messages/delivery.ts';
const confirmationTest = 'test/integration/agent/confirmation.test.ts';

/** Mutants of questions, answers and runs that no user has requested; each name is the mistake. */
export const approvalMutants: Readonly<Record<string, TestedMutant>> = {
  'a call that was forgotten before its question passes for a whole one': {
    file: 'packages/agent-server/src/acp/recorder.ts',
    from: '!this.#forgotten.has(toolCallId) &&',
    to: '',
    test: 'packages/agent-server/test/acp/recorder.test.ts',
    name: 'ask about all of a call, or say that they have forgotten it among too many others',
  },
  'a secret at the end of the rendered part of a text is shown in part': {
    file: questionText,
    from: 'first?.start ?? maxEnd',
    to: 'maxEnd',
    test: questionTest,
    name: 'shows no part of a secret where a long text ends that is not shown',
  },
  'a secret at the beginning of the rendered end of a text is shown in part': {
    file: questionText,
    from: 'last === undefined ? from : before + last.end',
    to: 'from',
    test: questionTest,
    name: 'shows no part of a secret where a long text ends that is not shown',
  },
  'a text of which the middle was not rendered passes for a whole one': {
    file: questionText,
    from: 'this.isTruncated = true;',
    to: '',
    test: questionTest,
    name: 'shows no part of a secret where a long text ends that is not shown',
  },
  'the name of an option shows a secret': {
    file: questionText,
    from: 'head(renderer.line(option.name), maxOptionLength)',
    to: 'head(line(option.name), maxOptionLength)',
    test: questionTest,
    name: 'hides secrets in the names of options, and shows where a name is longer',
  },
  'a text with the form of an escape is not escaped': {
    file: questionText,
    from: 'text.replace(specialOrBackslash,',
    to: 'text.replace(special,',
    test: questionTest,
    name: 'is that of its calls and of no others',
  },
  'a question hides a text with the form of a credential': {
    file: questionText,
    from: 'return this.#ends(text, this.#secrets, lines);',
    to: "return this.#ends(text.replace(/(:\\/\\/)[^\\s/@]+@/g, '$1***@'), this.#secrets, lines);",
    test: questionTest,
    name: 'a text with the form of a credential, as it is',
  },
  'characters without a glyph are dropped': {
    file: questionText,
    from: 'const code = character.codePointAt(0) ?? 0;',
    to: "const code = character.codePointAt(0) ?? 0; if (code === 0x202e) return '';",
    test: questionTest,
    name: 'the text of a question',
  },
  'a command hides the other arguments': {
    file: questionText,
    from: 'const given = isObject(input) ? Object.entries(input) : [];',
    to: "const given = isObject(input) ? Object.entries(input).filter(([name]) => !('command' in input) || name === 'command') : [];",
    test: questionTest,
    name: 'every argument beside a command',
  },
  'a long text ends without a mark': {
    file: questionText,
    from: 'return `${first}\\n${mark}\\n${last}`;',
    to: 'return first;',
    test: questionTest,
    name: 'the text of a question',
  },
  'the actions beyond the first page are not shown': {
    file: openhandsQuestions,
    from: 'return first?.llm_response_id == null || !page.every((each) => isOfResponse(each, first));',
    to: 'return true;',
    test: openhandsTest,
    name: 'openQuestion',
  },
  'actions that were not read count as shown': {
    file: openhandsQuestions,
    from: '(!hasMore && problem === undefined)',
    to: 'problem === undefined',
    test: openhandsTest,
    name: 'reads no more than four hundred, and knows it',
  },
  'calls of the same tools are the same call': {
    file: openhandsQuestions,
    from: '[tool ?? null, action ?? null]',
    to: '[tool ?? null, JSON.stringify(action ?? null).slice(0, 200)]',
    test: openhandsTest,
    name: 'identifies a call by its end too',
  },
  'an approval counts for calls that no user can read': {
    file: 'src/resources/approval.ts',
    from: 'if (accept && complete !== true) return undefined;',
    to: '',
    test: operatorTest,
    name: 'gives no approval of calls that were read in part',
  },
  'an answer counts for calls that have changed under their id': {
    file: 'src/controllers/conversation/approvals/approvals.ts',
    from: 'if (isKnown && question.callHash !== known.callHash)',
    to: 'if (question.callHash === known?.id)',
    test: operatorTest,
    name: 'gives no answer to calls that have changed under the same id',
  },
  'a text that is shown in part is approved unread': {
    file: 'src/gateway/approvals/answer.ts',
    from: 'const isRead = hash === undefined ? isSummaryWhole(open) : hash === open.callHash;',
    to: 'const isRead = hash === undefined || hash === open.callHash;',
    test: routesTest,
    name: 'that are shown in part',
  },
  'an answer to a withdrawn question is delivered': {
    file: routes,
    from: 'return hasAnswer(after, id, body) && budgetEffect === undefined ? delivered : recorded;',
    to: 'return delivered;',
    test: routesTest,
    name: 'are not delivered where the agent withdraws its question meanwhile',
  },
  'a message confirms what the agent asks meanwhile': {
    file: delivery,
    from: '{ role, content, run: false }',
    to: "{ role, content, run: message.run && state.executionStatus !== 'waiting_for_confirmation' }",
    test: confirmationTest,
    name: 'runs no action that a message finds waiting',
  },
  'a run is requested by an old report': {
    file: runRequest,
    from: 'const state = isWaiting ? polled : await agent.conversation(endpoint, id, { signal });',
    to: 'const state: AgentConversation | undefined = polled;',
    test: 'test/unit/controllers/conversation/messages/decide.test.ts',
    name: 'is run after a fresh report',
  },
  'an answer that was lost counts for any later question about the call': {
    file: acpProgram,
    from: 'const undelivered = this.#undelivered; this.#undelivered = undefined;',
    to: 'const undelivered = this.#undelivered;',
    test: acpTest,
    name: 'forgets an answer that was not delivered with another question',
  },
  'an answer that was lost outlives its turn': {
    file: acpProgram,
    from: 'if (notice === undefined || pending.length > 0) this.#undelivered = undefined;',
    to: 'if (pending.length > 1) this.#undelivered = undefined;',
    test: acpTest,
    name: 'forgets an answer that was not delivered with',
  },
  'an answer that was lost counts for any other call': {
    file: acpProgram,
    from: 'undelivered !== undefined && undelivered.hash === request.call_hash',
    to: 'undelivered !== undefined',
    test: acpTest,
    name: 'asks again about another call',
  },
  'a call is identified by what its question repeats of it': {
    file: 'packages/agent-server/src/acp/recorder.ts',
    from: '[raw?.title, raw?.kind, before?.input, before?.content, ...added]',
    to: '[raw?.title, raw?.kind, ...added]',
    test: 'packages/agent-server/test/acp/recorder.test.ts',
    name: 'ask about a call with',
  },
  'a call is identified by its input alone': {
    file: 'packages/agent-server/src/acp/recorder.ts',
    from: '[given.rawInput, givenContent, given.locations].map(',
    to: '[given.rawInput].map(',
    test: 'packages/agent-server/test/acp/recorder.test.ts',
    name: 'ask about another call where it differs',
  },
  'a call whose output has another place is another call': {
    file: 'packages/agent-server/src/acp/tool-calls.ts',
    from: "others['type'] === 'terminal' && typeof terminalId === 'string' ? others : part",
    to: 'part',
    test: 'packages/agent-server/test/acp/recorder.test.ts',
    name: 'whose id and whose place of output are others',
  },
  'what an agent says beside the input of a call is not shown': {
    file: 'packages/agent-server/src/acp/recorder.ts',
    from: 'input: withBeside(shown, title, beside)',
    to: 'input: shown',
    test: 'packages/agent-server/test/acp/recorder.test.ts',
    name: 'ask about another call where it differs beside an input',
  },
  'a change that the input has in part counts as said': {
    file: 'packages/agent-server/src/acp/tool-calls.ts',
    from: 'leavesOf(part).every(',
    to: 'leavesOf(part).some(',
    test: 'packages/agent-server/test/acp/recorder.test.ts',
    name: 'ask with another change of the file',
  },
  'a question shows the input of its request alone': {
    file: 'packages/agent-server/src/acp/tool-calls.ts',
    from: 'reported === undefined ? asked : { reported, asked }',
    to: 'asked',
    test: 'packages/agent-server/test/acp/recorder.test.ts',
    name: 'ask about a call with',
  },
  'a tool call may have the marker of a secret': {
    file: 'packages/agent-server/src/mask.ts',
    from: "part.replace(ownMarker, '<\\\\$1secret-hidden>')",
    to: "part.replace(ownMarker, '<$1secret-hidden>')",
    test: 'packages/agent-server/test/acp/recorder.test.ts',
    name: 'in a way that no other text has',
  },
  'a bridge takes a rounded number for whole': {
    file: 'packages/agent-server/src/acp/recorder.ts',
    from: 'isShortened: isShortened || !isExact(raw)',
    to: 'isShortened',
    test: 'packages/agent-server/test/acp/recorder.test.ts',
    name: 'know whether a tool call is whole',
  },
  'numbers of a tool call are rounded': {
    file: 'src/agent/http.ts',
    from: 'hasExactNumbers ? parseExactly : JSON.parse',
    to: 'JSON.parse',
    test: openhandsTest,
    name: 'shows numbers that a parser rounds',
  },
  'an action that can not be read asks nothing': {
    file: openhandsQuestions,
    from: '(last === undefined && problem === undefined)',
    to: 'last === undefined',
    test: openhandsTest,
    name: 'asks about actions that are',
  },
  'what was read before an action that can not be read counts as all': {
    file: openhandsQuestions,
    from: '(!hasMore && problem === undefined)',
    to: '!hasMore',
    test: openhandsTest,
    name: 'asks about actions that are in part nested too deeply',
  },
  'a title leaves out an argument that is false': {
    file: questionText,
    from: 'const names = Object.keys(others);',
    to: 'const names = Object.keys(others).filter((name) => others[name] !== false);',
    test: questionTest,
    name: 'that a command has arguments that are false or null',
  },
  'an approval whose calls were rejected counts as given': {
    file: 'src/controllers/conversation/approvals/approvals.ts',
    from: 'if (await this.#options.agent.hadApproval(endpoint, id, given, { signal })) return status;',
    to: 'if (given.accept) return status;',
    test: operatorTest,
    name: 'reports an approval in doubt as lost',
  },
  'a call is identified by what is shown of it': {
    file: 'packages/agent-server/src/acp/recorder.ts',
    from: 'hash: sha256(raw),',
    to: "hash: sha256(JSON.stringify(raw).slice(0, 30_000).replaceAll(/(one|two)-secret/g, '<secret-hidden>')),",
    test: 'packages/agent-server/test/acp/recorder.test.ts',
    name: 'identify a tool call that has',
  },
  'a person approves a change that the agent has omitted beside another one': {
    file: 'packages/agent-server/src/acp/tool-calls.ts',
    from: 'changed.size < Math.max(1, named.size)',
    to: 'changed.size < 1',
    test: 'packages/agent-server/test/acp/recorder.test.ts',
    name: 'know whether an agent has omitted',
  },
};
