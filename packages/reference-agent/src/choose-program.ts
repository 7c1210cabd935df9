import { acpPrograms } from '@conversation-operator/agent-server/acp/program';
import { LlmProgram } from './llm-program.ts';
import type { Programs } from '@conversation-operator/agent-server/program';
import { scriptProgram } from './script-program.ts';

/** Chooses the ACP agent of `env`, else an LLM if there is a model, else `scriptProgram`. */
export const chooseProgram: Programs = (env) =>
  acpPrograms(env) ??
  (({ model }) => (model === undefined ? scriptProgram : new LlmProgram(model)));
