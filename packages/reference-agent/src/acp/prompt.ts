import type { ContentBlock } from '@agentclientprotocol/sdk';
import type { Content } from '../events.ts';

/** A prompt of the protocol, and how many of its images the agent does not get. */
export interface AcpPrompt {
  readonly blocks: readonly ContentBlock[];
  readonly unreadImages: number;
}

/** An image that is in the message itself. */
const embedded = /^data:(image\/[a-z0-9.+-]+);base64,([A-Za-z0-9+/=]+)$/;

/**
 * Returns the notes of the bridge and the messages of the user as one text, followed by the images
 * of the messages. An agent that reads no images gets a mark in their place, and so does any agent
 * for an image that is an address: the bridge fetches nothing. Pure.
 */
export function promptOf(
  notes: readonly string[],
  messages: readonly (readonly Content[])[],
  readsImages: boolean,
): AcpPrompt {
  const images: ContentBlock[] = [];
  let unreadImages = 0;
  const markOf = (url: string): string => {
    const [, mimeType, data] = embedded.exec(url) ?? [];
    if (readsImages && mimeType !== undefined && data !== undefined) {
      images.push({ type: 'image', mimeType, data });
      return `[image ${images.length}]`;
    }
    unreadImages += 1;
    return url.startsWith('data:') ? '[image that you can not see]' : `[image at ${url}]`;
  };
  const textOf = (content: readonly Content[]): string =>
    content
      .flatMap((part) => (part.type === 'text' ? part.text : part.image_urls.map(markOf)))
      .join('\n');
  const text = [...notes, ...messages.map(textOf)].join('\n\n');
  return { blocks: [{ type: 'text', text }, ...images], unreadImages };
}
