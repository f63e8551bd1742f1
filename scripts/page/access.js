// Accessibility by keys, by screen reader, with weak eyes and on paper: a list of complaints.
// On a screen keys reach and show all that a pointer does. On paper nothing sticks or is cut off. Words are seen on both.
(async () => {
  const wrong = [];
  const expect = (is, what) => is || wrong.push(what);
  const all = (selector) => [...document.querySelectorAll(selector)].filter((part) => part.checkVisibility());
  const call = (part) => `${part.tagName.toLowerCase()}.${part.getAttribute("class") ?? ""} "${(part.ariaLabel ?? part.textContent).trim().slice(0, 40)}"`;
  const style = (part) => getComputedStyle(part);
  const parts = (colour) => { const [red, green, blue, alpha = 1] = colour.match(/[\d.]+/g).map(Number); return [red, green, blue, alpha]; };
  const over = (top, below) => [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3])).concat(1);
  const light = (colour) => colour.slice(0, 3).map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
  const contrast = (one, other) => { const [a, b] = [light(one), light(other)].sort((a, b) => b - a); return (a + 0.05) / (b + 0.05); };
  const grounds = new Map();
  // The colour behind an element's content: its own over its parent's. Of a gradient the first colour.
  const ground = (part) => {
    if (!part) return [255, 255, 255, 1];
    if (grounds.has(part)) return grounds.get(part);
    const { backgroundColor, backgroundImage } = style(part);
    const below = over(parts(backgroundColor), ground(part.parentElement));
    const first = backgroundImage.match(/rgba?\([^)]*\)/);
    const found = first ? over(parts(first[0]), below) : below;
    grounds.set(part, found);
    return found;
  };
  const isPaper = matchMedia("print").matches;

  expect(document.documentElement.lang, "the page does not say its language");
  expect(document.title.trim(), "the page has no title");
  expect(all("main").length === 1, "the page has not one main part");

  if (!isPaper) {
    const skip = document.querySelector("a[href], button, input, select, summary, [tabindex]");
    expect(skip.matches("a[href^='#']:not(nav a)") && document.querySelector(skip.hash)?.closest("main"), "nothing leads past the contents");
    const isReached = (part) => part.tabIndex >= 0 || part.role === "treeitem";
    const own = "a[href], button, input, select, textarea, summary, [tabindex]";
    all(own).forEach((part) => expect(isReached(part), `keys cannot reach ${call(part)}`));
    for (const part of all("body *")) {
      const { cursor, overflowX, overflowY } = style(part);
      if (cursor === "pointer") expect(part.closest(`${own}, label`), `only a pointer can use ${call(part)}`);
      const isScrolled = (overflow, whole, seen) => ["auto", "scroll"].includes(overflow) && whole > seen + 1;
      const scrolls = isScrolled(overflowX, part.scrollWidth, part.clientWidth) || isScrolled(overflowY, part.scrollHeight, part.clientHeight);
      if (scrolls) expect(part.tabIndex >= 0 || part.querySelector("a[href]"), `keys cannot scroll ${call(part)}`);
    }
    for (const part of all(own)) {
      // Focus shows a call path's numbers, with a query of their own, in place of others.
      if (!part.isConnected) continue;
      part.focus({ preventScroll: true });
      if (document.activeElement !== part) expect(part.role === "treeitem", `${call(part)} takes no focus`);
      const { outlineStyle, outlineWidth, outlineColor } = style(document.activeElement);
      const isSeen = outlineStyle !== "none" && parseFloat(outlineWidth) >= 1 && contrast(parts(outlineColor), ground(part.parentElement)) >= 3;
      expect(isSeen, `${call(part)} does not show its focus`);
    }
    document.activeElement.blur();
  }

  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const told = new Set();
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const part = text.parentElement;
    if (!text.data.trim() || part.closest("script, noscript, style, title, desc, option") || !part.checkVisibility({ opacityProperty: true })) continue;
    const { color, fill, stroke, fontSize, fontWeight } = style(part);
    const isDrawn = part.closest("svg") !== null;
    let back = ground(isDrawn ? part.closest("svg").parentElement.closest("div, section, li") : part);
    if (isDrawn) {
      const below = part.closest("g")?.querySelector("rect");
      if (below) back = over(parts(style(below).fill), back);
      if (stroke !== "none") back = over(parts(stroke), back);
    }
    let opacity = 1;
    for (let one = part; one; one = one.parentElement) opacity *= Number(style(one).opacity);
    const ink = parts(isDrawn ? fill : color);
    const found = contrast(over([...ink.slice(0, 3), ink[3] * opacity], back), back);
    const isLarge = parseFloat(fontSize) >= 24 || (parseFloat(fontSize) >= 18.66 && Number(fontWeight) >= 700);
    const kind = `${part.tagName}.${part.getAttribute("class")} in ${part.parentElement.getAttribute("class")}`;
    if (found < (isLarge ? 3 : 4.5) && !told.has(kind)) {
      told.add(kind);
      wrong.push(`contrast ${found.toFixed(2)} of ${call(part)} in ${call(part.parentElement)}`);
    }
  }

  if (isPaper) {
    expect(light(ground(document.body)) > 0.9, "paper is not light");
    for (const part of all("body *")) {
      const { position, overflowX, overflowY } = style(part);
      expect(!["sticky", "fixed"].includes(position), `on paper ${call(part)} sticks`);
      const isCut = (overflow, whole, seen) => overflow !== "visible" && whole > seen + 1;
      if (part.matches(".scroll, .pane, pre, .drawing")) {
        const cut = isCut(overflowX, part.scrollWidth, part.clientWidth) || isCut(overflowY, part.scrollHeight, part.clientHeight);
        expect(!cut, `on paper ${call(part)} is cut off`);
      }
    }
    all("button:not(.sort), input, nav").forEach((part) => wrong.push(`on paper ${call(part)} is of no use`));
    expect(!all("details:not([open]) > summary").some((part) => !part.closest(".code-of")), "on paper there is something closed");
    const wide = document.documentElement.scrollWidth;
    expect(wide <= innerWidth, `the page is ${wide} wide, the paper ${innerWidth}`);
  }
  return [...new Set(wrong)];
})()
