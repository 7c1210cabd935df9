import type { Request } from '@conversation-operator/kube/controller';

/** Key of the conversation in maps. */
export const conversationKey = ({ namespace, name }: Request): string => `${namespace}/${name}`;
