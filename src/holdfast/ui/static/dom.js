// Create and update elements of the page.

export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// Make the children of a node equal to these, and change only what differs. So a button that is being pressed, the selection, the
// focus and the position of a screen reader survive an update.
export function updateChildren(parent, children) {
  const newNodes = [...children].filter((child) => child !== null && child !== undefined).map((child) => (child instanceof Node ? child : new Text(child)));
  newNodes.forEach((newNode, k) => {
    const node = parent.childNodes[k];
    if (!node) parent.append(newNode);
    else if (node.nodeName !== newNode.nodeName || node.dataset?.key !== newNode.dataset?.key) node.replaceWith(newNode);
    else updateNode(node, newNode);
  });
  while (parent.childNodes.length > newNodes.length) parent.lastChild.remove();
}

function updateNode(node, newNode) {
  if (node.nodeType === Node.TEXT_NODE) {
    if (node.data !== newNode.data) node.data = newNode.data;
    return;
  }
  for (const { name } of [...node.attributes]) if (name !== "style" && !newNode.hasAttribute(name)) node.removeAttribute(name);
  for (const { name, value } of newNode.attributes) if (name !== "style" && node.getAttribute(name) !== value) node.setAttribute(name, value);
  if (node.style.cssText !== newNode.style.cssText) node.style.cssText = newNode.style.cssText;  // the security policy forbids a style attribute
  node.onclick = newNode.onclick;
  updateChildren(node, newNode.childNodes);
}

// The shape and colour of a quality.
export const qualityMark = (quality) => element("span", { class: `mark ${quality ?? "waiting"}`, "aria-hidden": "true" });

export function setText(id, text) {
  const node = document.getElementById(id);
  if (node.textContent !== text) node.textContent = text;
}
