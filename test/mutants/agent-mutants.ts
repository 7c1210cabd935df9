import type { TestedMutant } from './tested-mutant.ts';

const acpChild = 'packages/reference-agent/src/acp/child.ts';
const acpProgram = 'packages/reference-agent/src/acp/program.ts';
const conversations = 'packages/reference-agent/src/conversations.ts';
const acpTest = 'packages/reference-agent/test/acp/acp-program.test.ts';

/**
 * Mistakes in the sessions of agents, in what collects reports, in texts that are shortened, and in
 * rows of the page. Each name is the mistake as a sentence.
 */
export const agentMutants: Readonly<Record<string, TestedMutant>> = {
  'an update of another session is recorded': {
    file: acpChild,
    from: 'if (sessionId !== this.#session) return;',
    to: '',
    test: acpTest,
    name: 'hears nothing of a session that is not its own',
  },
  'a question of another session reaches a person': {
    file: acpChild,
    from: 'if (sessionId !== this.#session || !isExpected ||',
    to: 'if (!isExpected ||',
    test: acpTest,
    name: 'hears nothing of a session that is not its own',
  },
  'the rest of a replay that has failed is recorded': {
    file: acpChild,
    from: 'this.#session = undefined; throw error;',
    to: 'throw error;',
    test: acpTest,
    name: 'hears nothing late of a session that it could not load',
  },
  'no text is sent live after an interrupt': {
    file: acpChild,
    from: 'this.#isCancelling = false; this.#turn = undefined;',
    to: 'this.#turn = undefined;',
    test: acpTest,
    name: 'is heard while it writes, also after an interrupt',
  },
  'a resumed session has no MCP servers': {
    file: acpChild,
    from: "agent.request('session/resume', { sessionId, cwd, mcpServers: asProtocol(mcpServers) })",
    to: "agent.request('session/resume', { sessionId, cwd })",
    test: acpTest,
    name: 'also when it resumes a session',
  },
  'a session in place of a lost one has no MCP servers': {
    file: acpProgram,
    from: 'await child.newSession(servers)',
    to: 'await child.newSession(acpSession === undefined ? servers : [])',
    test: acpTest,
    name: 'also when it has lost a session',
  },
  'only the first session gets its mode': {
    file: acpProgram,
    from: 'if (mode !== undefined) await child.setMode(mode);',
    to: 'if (mode !== undefined && run.acpSession === undefined) await child.setMode(mode);',
    test: acpTest,
    name: 'has its MCP servers, its mode and its environment',
  },
  'only the first session gets the suffix of the system message': {
    file: acpProgram,
    from: 'run.log.handledThrough === 0 || this.#transcript !== undefined',
    to: 'run.log.handledThrough === 0',
    test: acpTest,
    name: 'continues in the last of its sessions',
  },
  'each prompt of a session in place of a lost one repeats what was said': {
    file: acpProgram,
    from: 'this.#transcript = undefined; child.prompt',
    to: 'child.prompt',
    test: acpTest,
    name: 'continues in the last of its sessions',
  },
  'an agent continues in the first of its sessions': {
    file: 'packages/reference-agent/src/derived-state.ts',
    from: 'this.acpSession = event.value;',
    to: 'this.acpSession ??= event.value;',
    test: acpTest,
    name: 'continues in the last of its sessions',
  },
  'all agents of a server have one home': {
    file: conversations,
    from: "home: join(path, id, 'home')",
    to: "home: join(path, 'home')",
    test: acpTest,
    name: 'have an agent each',
  },
  'a conversation that is made again has the agent of the deleted one': {
    file: conversations,
    from: 'this.#acp.delete(id);',
    to: '',
    test: acpTest,
    name: 'share nothing either',
  },
  'a conversation that is made again hides the secrets of the deleted one': {
    file: conversations,
    from: 'this.#secrets.forget({ id });',
    to: '',
    test: acpTest,
    name: 'share nothing either',
  },
  'an event that is longer without its line breaks is archived whole': {
    file: 'src/archive/agent-event.ts',
    from: 'Math.max(text.length, json.length)',
    to: 'text.length',
    test: 'test/unit/archive/bad-input.test.ts',
    name: 'that is short in its layout',
  },
  'a page that begins with a larger event is empty': {
    file: 'src/archive/reader.ts',
    from: 'events.length > 0 && bytes',
    to: 'bytes',
    test: 'test/unit/archive/archive.test.ts',
    name: 'reads events that are larger than a page',
  },
};
