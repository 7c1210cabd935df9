import { agentContainerOf, type SandboxTemplate } from './sandbox-template.ts';

/** Folder of the working tree, below the working directory of the agent's container. */
export const projectFolder = 'project';

/** Absolute path of the folder of a conversation, in the pods that are made from the template. */
export function workingDirOf(template: Pick<SandboxTemplate, 'spec'>): string {
  const folder = agentContainerOf(template)?.workingDir ?? template.spec.agent.workingDir;
  return `${folder.replace(/\/+$/, '')}/${projectFolder}`;
}
