import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

interface TextBlockProps {
  readonly label: string;
  readonly children: ComponentChildren;
  /** Called when the end of the text is in its frame, at once where all of it is. */
  readonly onEnd?: () => void;
  /** Whether the text takes the focus of the element that it replaces. */
  readonly takesFocus?: boolean;
}

/** A text with its lines as they are. The keyboard can scroll it. */
export function TextBlock({ label, children, onEnd, takesFocus = false }: TextBlockProps) {
  const frame = useRef<HTMLPreElement>(null);
  useEffect(() => {
    if (takesFocus) frame.current?.focus();
  }, []);
  const check = (shown: HTMLElement | null) => {
    if (shown !== null && shown.scrollTop + shown.clientHeight >= shown.scrollHeight - 1) onEnd?.();
  };
  return (
    <pre
      ref={(element) => {
        frame.current = element;
        check(element);
      }}
      role="group"
      tabIndex={0}
      aria-label={label}
      onScroll={(event) => check(event.currentTarget)}
    >
      {children}
    </pre>
  );
}

/** A word of a script that is written from right to left, with its marks. */
const rightToLeft =
  /((?:[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]\p{M}*)+)/u;

/**
 * A text from left to right, word by word: words of a script from right to left are not reordered
 * among what is around them, so that every argument is seen where it is.
 */
export const InOrder = ({ children }: { readonly children: string }) => (
  <span class="in-order">
    {children
      .split(rightToLeft)
      .map((part, index) => (index % 2 === 1 ? <bdi key={index}>{part}</bdi> : part))}
  </span>
);
