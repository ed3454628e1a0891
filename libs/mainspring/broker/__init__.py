"""The only package that speaks AMQP. Rows are the truth; what travels here are hints.

``topology`` says what exists, ``messages`` what a body holds, ``publisher`` and ``consumer`` move them over
two separate connections (a broker that blocks publishers must not stop consumers), ``delay_ladder`` delays.
Messages are acknowledged in one place: ``consumer.Delivery``.
"""
