import { acpPrograms } from '@conversation-operator/agent-server/acp/program';
import { LlmProgram } from './llm-program.ts';
import type { Programs } from '@conversation-operator/agent-server/program';
import { scriptProgram } from './script-program.ts';

/**
 * The agent that the environment names works on all conversations. Without one, a model does where
 * a conversation has one, and the script of the message everywhere else.
 */
export const chooseProgram: Programs = (env) =>
  acpPrograms(env) ??
  (({ model }) => (model === undefined ? scriptProgram : new LlmProgram(model)));
